package doctor

import "golang.org/x/sys/windows"

// space is what the file system of a folder has and has free.
func space(dir string) (d Disk, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return d, err
	}
	err = windows.GetDiskFreeSpaceEx(name, &d.Free, &d.Total, nil)
	return d, err
}
