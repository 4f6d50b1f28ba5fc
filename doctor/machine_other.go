//go:build !linux && !freebsd

package doctor

import (
	"errors"
	"io/fs"
)

// The gateway runs on other systems, too, where fewer facts are available.

// Kernel implements Machine.
func (This) Kernel(string) (string, error) { return "", fs.ErrNotExist }

// TimeWait implements Machine.
func (This) TimeWait() (int64, error) { return 0, errors.ErrUnsupported }

// Synchronised implements Machine.
func (This) Synchronised() (bool, error) { return false, errors.ErrUnsupported }

// Entropy implements Machine.
func (This) Entropy() (bool, error) { return false, errors.ErrUnsupported }

// Memory implements Machine.
func (This) Memory() (int64, error) { return 0, errors.ErrUnsupported }
