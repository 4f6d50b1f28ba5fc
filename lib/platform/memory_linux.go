package platform

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryLimit returns the bytes of memory that the control groups of this process allow it, of
// version 1 or 2; 0 if they set no limit.
func MemoryLimit() int64 { return memoryLimit("/") }

func memoryLimit(root string) (least int64) {
	for _, file := range limitFiles(root) {
		n, err := strconv.ParseInt(strings.TrimSpace(small(file)), 10, 64)
		// Version 1 writes the largest number of pages for no limit, version 2 "max".
		if err == nil && n > 0 && n < 1<<60 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// limitFiles returns the files with the limits of this process's control group and of those above
// it. A container sees its own group as the root.
func limitFiles(root string) (files []string) {
	v1, v2 := filepath.Join(root, "sys/fs/cgroup/memory"), filepath.Join(root, "sys/fs/cgroup")
	files = []string{filepath.Join(v2, "memory.max"), filepath.Join(v1, "memory.limit_in_bytes")}
	for line := range strings.Lines(small(filepath.Join(root, "proc/self/cgroup"))) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3) // cgroups(7): number, controllers, path
		if len(part) < 3 {
			continue
		}
		dir, name := v2, "memory.max"
		if part[1] != "" {
			if dir, name = v1, "memory.limit_in_bytes"; !strings.Contains(","+part[1]+",", ",memory,") {
				continue
			}
		}
		for path := filepath.Clean("/" + part[2]); path != "/"; path = filepath.Dir(path) {
			files = append(files, filepath.Join(dir, path, name))
		}
	}
	return files
}

// small returns the content of a file of /proc or /sys, "" if it cannot be read.
func small(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 64<<10))
	return string(b)
}
