//go:build unix

package doctor

import "golang.org/x/sys/unix"

// space returns the size and free space of a folder's file system.
func space(dir string) (Disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Disk{}, err
	}
	return Disk{Free: uint64(max(0, st.Bavail)) * uint64(st.Bsize), Total: uint64(st.Blocks) * uint64(st.Bsize),
		Files: uint64(max(0, st.Ffree)), FilesLimited: st.Files > 0}, nil
}
