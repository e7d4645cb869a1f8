//! Berth's manager: the small centre.
