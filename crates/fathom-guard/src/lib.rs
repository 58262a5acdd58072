//! Claims, consent, ownership markers, the measuring lock
