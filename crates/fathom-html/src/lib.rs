//! Reports: what a run says as a [`page::Page`], and the page as one self-contained HTML file. Pure: records and studies in,
//! text out.
//!
//! A page is plain data, so that HTML and Markdown show the same: [`pages`] makes one of each kind of run, with one file for
//! each kind; [`html`] writes it. Nothing is computed here that a study could say.

pub mod html;
pub mod markdown;
pub mod page;
pub mod pages;
