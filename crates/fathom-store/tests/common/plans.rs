//! Plans as `fathom-plan` makes them.

/// A plan of that name.
pub fn plan(name: &str) -> fathom_model::plan::Plan {
    let plan = serde_json::json!({
        "version": 1, "name": name, "question": "Which?", "target": "/srv", "workloads": [], "is_together": false,
        "factors": [], "setup": fathom_model::plan::setup::SetupSpec::default(), "knobs": {}, "own_knobs": [],
        "design": {
            "kind": "full", "baseline": {}, "except": [], "blocks": 8, "is_sequential": false, "has_sentinel": false,
            "margin": 0.03, "seed": 7, "groups_setups": false,
        },
        "objectives": [],
        "prepare": {
            "drops_caches": false, "remounts": false, "settle_ns": 0, "quiet_ns": 0, "quiet_wait_ns": 0,
            "swap_off": false, "stop_services": [],
        },
        "budget": {}, "on_error": "stop",
    });
    serde_json::from_value(plan).expect("a plan")
}
