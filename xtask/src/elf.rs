//! Whether a program is statically linked, read from its ELF headers.

/// Program header that names the dynamic loader.
const PT_INTERP: u32 = 3;
/// Program header of the dynamic section, which a static position-independent program has too.
const PT_DYNAMIC: u32 = 2;
/// Dynamic entry that names a shared library.
const DT_NEEDED: u64 = 1;

/// Says why a 64-bit little-endian ELF file is not static; nothing when it is.
///
/// # Errors
/// The reason.
pub fn check_static(file: &[u8]) -> Result<(), String> {
    if file.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err("not a 64-bit little-endian ELF file".to_owned());
    }
    let cut = || "ends inside its headers".to_owned();
    let table = number(file, 32, 8).ok_or_else(cut)? as usize;
    let entry_bytes = number(file, 54, 2).ok_or_else(cut)? as usize;
    let entry_count = number(file, 56, 2).ok_or_else(cut)? as usize;
    for entry in (0..entry_count).map(|i| table + i * entry_bytes) {
        match number(file, entry, 4).ok_or_else(cut)? as u32 {
            PT_INTERP => return Err("needs a dynamic loader (PT_INTERP)".to_owned()),
            PT_DYNAMIC => {
                let start = number(file, entry + 8, 8).ok_or_else(cut)? as usize;
                let bytes = number(file, entry + 32, 8).ok_or_else(cut)? as usize;
                let mut tags = (start..start + bytes).step_by(16).map(|at| number(file, at, 8));
                if tags.any(|tag| tag == Some(DT_NEEDED)) {
                    return Err("needs shared libraries (DT_NEEDED)".to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn number(file: &[u8], offset: usize, bytes: usize) -> Option<u64> {
    let field = file.get(offset..offset.checked_add(bytes)?)?;
    Some(field.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with one program header of that type over one dynamic entry of that tag.
    fn elf(header_type: u32, tag: u64) -> Vec<u8> {
        let mut file = vec![0; 64 + 56 + 16];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file[64..68].copy_from_slice(&header_type.to_le_bytes());
        file[72] = 120;
        file[96] = 16;
        file[120..128].copy_from_slice(&tag.to_le_bytes());
        file
    }

    #[test]
    fn static_and_dynamic_files() {
        assert_eq!(check_static(&elf(PT_DYNAMIC, 0)), Ok(()));
        assert!(check_static(&elf(PT_INTERP, 0)).unwrap_err().contains("PT_INTERP"));
        assert!(check_static(&elf(PT_DYNAMIC, DT_NEEDED)).unwrap_err().contains("DT_NEEDED"));
        assert!(check_static(&elf(1, 0)[..66]).unwrap_err().contains("ends inside"));
        assert!(check_static(b"#!/bin/sh").is_err());
    }

    #[test]
    fn this_test_program_is_dynamic() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(check_static(&file).is_err());
    }
}
