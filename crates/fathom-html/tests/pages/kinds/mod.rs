//! One page of every kind of report, made of records with chosen figures.

mod capture;
mod compare;
mod experiment;
mod fsop;
mod history;
mod layers;
mod made;
mod quick;
mod raid;
mod run;
pub mod sample;
mod saturate;
mod size;
mod watch;

use fathom_html::page::Page;

/// Every kind by its name.
pub fn all() -> Vec<(&'static str, Page)> {
    vec![
        ("run", run::shown()),
        ("quick", quick::shown()),
        ("experiment", experiment::shown()),
        ("comparison", compare::shown()),
        ("raid", raid::shown()),
        ("saturate", saturate::shown()),
        ("size", size::shown()),
        ("layers", layers::shown()),
        ("fsop", fsop::shown()),
        ("personality", fsop::played()),
        ("watch", watch::shown()),
        ("capture", capture::shown()),
        ("history", history::shown()),
    ]
}
