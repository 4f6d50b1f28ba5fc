//go:build !linux

package ingest

import "time"

func pause(d time.Duration) { time.Sleep(d) }
