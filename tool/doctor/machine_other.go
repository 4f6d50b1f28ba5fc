//go:build !linux && !freebsd

package doctor

import (
	"errors"
	"io/fs"
)

// The gateway runs on other systems, too, where fewer facts are available.

// Kernel implements Machine.
func (ThisMachine) Kernel(string) (string, error) { return "", fs.ErrNotExist }

// TimeWait implements Machine.
func (ThisMachine) TimeWait() (int64, error) { return 0, errors.ErrUnsupported }

// Synchronised implements Machine.
func (ThisMachine) Synchronised() (bool, error) { return false, errors.ErrUnsupported }

// Entropy implements Machine.
func (ThisMachine) Entropy() (bool, error) { return false, errors.ErrUnsupported }

// Memory implements Machine.
func (ThisMachine) Memory() (int64, error) { return 0, errors.ErrUnsupported }

// Written implements Machine.
func (ThisMachine) Written(int) (Written, error) { return Written{}, errors.ErrUnsupported }

func isCard(string) bool { return false }
