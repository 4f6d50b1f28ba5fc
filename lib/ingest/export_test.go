package ingest

import (
	"sync/atomic"
	"syscall"
	"time"
)

// Faults sets the faults of a disk.
type Faults struct {
	On                          atomic.Bool
	Write, Sync, Truncate, Open error
	Half                        bool  // half of it is written before Write
	Segment                     int64 // size of segments
	Every                       int64 // one of so many writes fails, even without On
	writes                      atomic.Int64
}

type faulty struct {
	file
	*Faults
}

func (f faulty) Write(b []byte) (int, error) {
	if f.Every > 0 && f.writes.Add(1)%f.Every == 0 {
		return 0, syscall.EIO
	}
	if f.On.Load() && f.Faults.Write != nil {
		n := 0
		if f.Half {
			n, _ = f.file.Write(b[:len(b)/2])
		}
		return n, f.Faults.Write
	}
	return f.file.Write(b)
}

func (f faulty) Datasync() error {
	if f.On.Load() && f.Sync != nil {
		return f.Sync
	}
	return f.file.Datasync()
}

func (f faulty) Truncate(size int64) error {
	if f.On.Load() && f.Faults.Truncate != nil {
		return f.Faults.Truncate
	}
	return f.file.Truncate(size)
}

// OpenFaulty opens a log on a disk with faults.
func OpenFaulty(c Config, f *Faults) (*Log, error) {
	l, err := open(c, nil, func(path string, segment int64) (file, error) {
		if f.On.Load() && f.Open != nil {
			return nil, f.Open
		}
		out, err := openFile(path, segment)
		return faulty{out, f}, err
	})
	if err != nil {
		return nil, err
	}
	l.retry = time.Second
	if f.Every > 0 {
		l.retry = time.Millisecond
	}
	if l.disk.out != nil {
		l.disk.out = faulty{l.disk.out, f}
	}
	return l, nil
}

// Written returns the valid length of the last segment.
func Written(l *Log) int { return int(l.tail.Load().offset) }

// TryNow makes a failed log retry at once.
func TryNow(l *Log) {
	l.mu.Lock()
	l.again = time.Time{}
	l.mu.Unlock()
}

// Torn returns the number of incomplete batches that were removed when the log
// was opened.
func Torn(l *Log) int64 { return l.stats.torn.Load() }

// Damaged returns the number of damages that were found since the log was opened.
func Damaged(l *Log) int64 { return l.stats.damaged.Load() }
