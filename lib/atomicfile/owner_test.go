//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestFilesThatRootWritesBelongToTheOwnerOfTheFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can write files for others")
	}
	service, own := t.TempDir(), t.TempDir()
	if err := os.Chown(service, 4711, 4712); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(service, "of root")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(own, "of somebody")
	if err := os.WriteFile(moved, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(moved, 5, 6); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		file        string
		user, group uint32
	}{
		{filepath.Join(service, "key"), 4711, 4712},
		{kept, 0, 0},
		{filepath.Join(own, "new"), 0, 0},
		{moved, 5, 6},
	} {
		if err := WriteBytes(tt.file, 0o600, []byte("x")); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(tt.file)
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != tt.user || st.Gid != tt.group || info.Mode() != 0o600 {
			t.Errorf("%s belongs to %d:%d with %v, want %d:%d", tt.file, st.Uid, st.Gid, info.Mode(), tt.user, tt.group)
		}
	}
	if err := CreateBytes(filepath.Join(service, "created"), 0o644, nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(service, "created"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 4711 {
		t.Errorf("the owner of a created file: %+v, %v", info, err)
	}
}
