//! What an experiment stands on: arrays, volumes, encryption, filesystems and mounts, built from a description, and taken down again, with
//! nothing else touched.
