//! Answers of budgets to requests, and the requests that ask again when a budget has room.

use super::{Reply, RequestIndex, model::Stage};
use crate::store::{BudgetSeen, Now};

impl RequestIndex {
    /// Asks budgets from now on: no pod is recreated before its budget lets it.
    pub fn ask_budgets(&mut self) {
        self.asks_budgets = true;
    }

    #[cfg(test)]
    pub(super) fn nobody_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A budget has answered.
    pub fn permitted(&mut self, reply: Reply, now: Now) {
        let id = reply.ask.id.clone();
        let Some(request) = self.requests.get_mut(&id).filter(|request| *request.uid == *reply.ask.uid)
        else {
            return;
        };
        if !matches!(request.stage, Stage::Unassigned(_)) || !request.permit.answered(reply, now.instant) {
            return;
        }
        if let Some(budget) = request.waits_for() {
            self.waiting.add(budget, request.seen.instant, &id);
        }
        self.requests.set_timer(&id, Some(now.instant));
    }

    /// Lets as many ask again, soon, as the budget lets go now.
    pub(super) fn budget_changed(&mut self, seen: &BudgetSeen) {
        let allowed = seen.status.as_ref().map_or(0, |status| status.unavailable_allowed);
        let Ok(allowed @ 1..) = usize::try_from(allowed) else { return };
        let key = self.texts.key(&seen.namespace, &seen.name);
        for id in self.waiting.first(&key, allowed) {
            let again = self.requests.get_mut(&id).and_then(|request| request.permit.wake());
            if again.is_some() {
                self.requests.set_timer(&id, again);
            }
        }
    }
}
