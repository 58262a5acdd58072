//! A sample in the form of OpenMetrics, for those who collect figures.
