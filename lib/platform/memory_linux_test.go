package platform

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheLeastLimitOfTheControlGroupsCounts(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no control groups", nil, 0},
		{"version 2, no limit", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 0},
		{"version 2", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "104857600\n"}, 100 << 20},
		{"version 2, of a group above", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1000\n"}, 1000},
		{"version 2, the group above has more", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000\n", "sys/fs/cgroup/a/memory.max": "2000\n"}, 1000},
		{"version 2, in a container", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n"}, 1000},
		{"version 2, a path of the host", map[string]string{"proc/self/cgroup": "0::/../other\n", "sys/fs/cgroup/memory.max": "1000\n"}, 1000},
		{"version 1", map[string]string{"proc/self/cgroup": "11:cpu,cpuacct:/c\n10:memory:/d/e\n1:name=systemd:/\n", "sys/fs/cgroup/memory/d/e/memory.limit_in_bytes": "1000\n"}, 1000},
		{"version 1, no limit", map[string]string{"proc/self/cgroup": "10:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		{"version 1, in a container", map[string]string{"proc/self/cgroup": "10:memory:/docker/1\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1000\n"}, 1000},
		{"both", map[string]string{"proc/self/cgroup": "10:memory:/d\n0::/\n", "sys/fs/cgroup/memory/d/memory.limit_in_bytes": "1000\n"}, 1000},
		{"not a number", map[string]string{"proc/self/cgroup": "0::/a\n::\nx\n", "sys/fs/cgroup/a/memory.max": "1 GB\n"}, 0},
		{"nothing at all", map[string]string{"sys/fs/cgroup/memory.max": "0\n"}, 0},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := memoryLimit(root); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

// TestLimitsOfCoresAreOnlyLowered: where a service manager has set zero, nobody may raise it.
func TestLimitsOfCoresAreOnlyLowered(t *testing.T) {
	for range 2 { // the second time there is nothing left to lower
		if err := NoCores(); err != nil {
			t.Error(err)
		}
	}
}
