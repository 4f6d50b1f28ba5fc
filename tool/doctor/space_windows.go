package doctor

import "golang.org/x/sys/windows"

// space returns the size and free space of a folder's file system.
func space(dir string) (d Disk, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return d, err
	}
	err = windows.GetDiskFreeSpaceEx(name, &d.Free, &d.Total, nil)
	return d, err
}
