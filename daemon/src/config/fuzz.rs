//! `berthd.yaml`, and the values in it, as anybody could have written them.

use crate::{
    base::quantity::Quantity,
    config::{Configuration, Endpoint, GoDuration, Reserve, SocketPath},
};

/// Checks that a configuration is written and read again as the same, and that an error names its field.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let read = match Configuration::parse(text) {
        Ok(read) => read,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let written = serde_saphyr::to_string(&read).expect("what was read can be written");
    let again = Configuration::parse(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(again, read, "{written}");
    match read.check_in(false) {
        Ok(checked) => assert_eq!(checked.clone().check_in(false).expect("checked before"), checked),
        Err(error) => {
            let field = error.to_string();
            let field = field.split(':').next().unwrap_or_default();
            let name = field.rsplit('.').next().unwrap_or_default();
            assert!(super::DEFAULTS.contains(name) || text.contains(name), "{error} names no field");
        }
    }
}

/// Durations, sizes, endpoints: what is read is written and read again as the same.
pub fn values(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(duration) = text.parse::<GoDuration>() {
        assert_eq!(duration.to_string().parse(), Ok(duration), "{text:?} is {duration}");
    }
    if let Ok(path) = text.parse::<SocketPath>() {
        assert_eq!(path.to_string().parse(), Ok(path));
    }
    if let Ok(endpoint) = text.parse::<Endpoint>() {
        assert_eq!(String::from(endpoint.clone()).parse().ok(), Some(endpoint));
    }
    if let Ok(reserve) = text.parse::<Reserve>() {
        assert!(reserve.of(0) <= reserve.of(u64::MAX));
    }
    let quantity = Quantity(text.to_owned());
    if let (Ok(milli), Ok(whole)) = (quantity.milli(), quantity.whole()) {
        assert!(whole >= milli / 1000 && milli >= 0, "{text:?} is {milli} thousandths, {whole}");
    }
}
