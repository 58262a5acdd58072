//! Records as tables for people and in the classic tools' forms
