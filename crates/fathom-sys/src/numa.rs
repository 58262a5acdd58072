//! NUMA nodes: which there are, binding the calling thread's memory to one, and where memory really lies.

use crate::sysroot::SysRoot;
use fathom_base::order::Order;
use std::io;

const NODES: &str = "sys/devices/system/node";

/// The nodes of the machine, in order; empty where the kernel knows none.
#[must_use]
pub fn nodes(root: &SysRoot) -> Vec<u32> {
    let names = root.names(NODES);
    let mut nodes: Vec<u32> =
        names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    nodes.order();
    nodes
}

/// The CPUs of a node; none when there is no such node, empty for one that is memory only.
#[must_use]
pub fn cpus(root: &SysRoot, node: u32) -> Option<Vec<u32>> {
    let list = root.read(format!("{NODES}/node{node}/cpulist")).ok()?;
    let ranges = list.trim().split(',').filter(|part| !part.is_empty());
    let mut cpus = Vec::new();
    for range in ranges {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(cpus)
}

const MPOL_BIND: libc::c_long = 2;
/// MPOL_F_NODE and MPOL_F_ADDR: the node on which the page at an address lies.
const NODE_OF_ADDRESS: libc::c_ulong = 1 | 2;
/// Nodes that a mask has room for: more than any kernel is built with.
const NODES_MAX: usize = 1024;
const WORD_BITS: usize = libc::c_ulong::BITS as usize;

/// From now on, memory that the calling thread is the first to touch comes from this node and from no other; so does
/// what the kernel takes for it.
///
/// # Errors
/// Those of set_mempolicy(2): EINVAL for a node without memory or outside the cpuset, EPERM where a container forbids
/// the call, ENOSYS on a kernel without NUMA; `Other` when the kernel reads back something else.
pub fn bind_memory(node: u32) -> io::Result<()> {
    let mut wanted: [libc::c_ulong; NODES_MAX / WORD_BITS] = [0; NODES_MAX / WORD_BITS];
    let index = node as usize;
    let word = wanted.get_mut(index / WORD_BITS);
    *word.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))? |= 1 << (index % WORD_BITS);
    // One more than there are bits: the kernel takes one off.
    let bits = NODES_MAX + 1;
    // SAFETY: the pointer is to an array of that many bits, which the kernel only reads.
    let done = unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_BIND, wanted.as_ptr(), bits) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut mode, mut mask): (libc::c_int, _) = (0, [0 as libc::c_ulong; NODES_MAX / WORD_BITS]);
    let address = std::ptr::null::<u8>();
    // SAFETY: both pointers are to objects of this thread with room for what is asked.
    let told = unsafe {
        let (mode, mask) = (&raw mut mode, mask.as_mut_ptr());
        libc::syscall(libc::SYS_get_mempolicy, mode, mask, NODES_MAX, address, 0)
    };
    if told != 0 {
        return Err(io::Error::last_os_error());
    }
    if libc::c_long::from(mode) == MPOL_BIND && mask == wanted {
        Ok(())
    } else {
        Err(io::Error::other(format!("bound to node {node}, but policy {mode} is read back")))
    }
}

/// The node on which the first page of this memory lies.
///
/// # Errors
/// Those of get_mempolicy(2).
pub fn node_of(memory: &[u8]) -> io::Result<u32> {
    let mut node: libc::c_int = 0;
    let (no_mask, address) = (std::ptr::null_mut::<libc::c_ulong>(), memory.as_ptr());
    // SAFETY: the first pointer is to an integer of this thread; the address is of memory that is borrowed, and only
    // looked up.
    let told = unsafe {
        let node = &raw mut node;
        libc::syscall(libc::SYS_get_mempolicy, node, no_mask, 0, address, NODE_OF_ADDRESS)
    };
    if told != 0 {
        return Err(io::Error::last_os_error());
    }
    u32::try_from(node).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn recorded(files: &[(&str, &str)], name: &str) -> (SysRoot, std::path::PathBuf) {
        let dir = std::env::temp_dir().join(format!("fathom-{name}-{}", std::process::id()));
        for (path, content) in files {
            let path = dir.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
            std::fs::write(path, content).unwrap();
        }
        (SysRoot::at(&dir), dir)
    }

    #[test]
    fn nodes_and_their_cpus() {
        let files = [
            ("sys/devices/system/node/node0/cpulist", "0-3,8-9\n"),
            ("sys/devices/system/node/node10/cpulist", "4\n"),
            // Memory without processors, as CXL has it.
            ("sys/devices/system/node/node2/cpulist", "\n"),
            ("sys/devices/system/node/has_cpu", "0,10\n"),
        ];
        let (root, dir) = recorded(&files, "numa");
        let found = (nodes(&root), [0, 10, 2, 1].map(|node| cpus(&root, node)));
        std::fs::remove_dir_all(dir).unwrap();
        let all = Some(vec![0, 1, 2, 3, 8, 9]);
        assert_eq!(found, (vec![0, 2, 10], [all, Some(vec![4]), Some(Vec::new()), None]));
    }

    #[test]
    fn memory_lies_where_it_is_bound() {
        let live = SysRoot::live();
        // A kernel without NUMA has no node to bind to.
        for node in nodes(&live) {
            let bind = || {
                bind_memory(node).unwrap();
                let memory = vec![1u8; 1 << 20];
                assert_eq!(node_of(&memory[1 << 19..]).unwrap(), node);
            };
            std::thread::scope(|scope| scope.spawn(bind).join().unwrap());
        }
        for missing in [900, 100_000] {
            assert!(bind_memory(missing).is_err(), "{missing}");
        }
    }
}
