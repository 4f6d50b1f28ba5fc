package replay

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A Meter is the progress of something: Done of Total in any unit, 0 if the total is unknown,
// and a few words.
type Meter struct {
	Done, Total int64
	Words       string
}

// Watched runs f, and meanwhile shows its progress on w: as a bar in one line if w is a terminal,
// else with lines a line every second, else not at all.
func Watched(w io.Writer, lines bool, look func() Meter, f func() error) error {
	live := isTerminal(w)
	if !live && !lines {
		return f()
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		watch(w, live, stop, look)
	}()
	err := f()
	close(stop)
	<-stopped
	return err
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}

// watch draws a progress bar on w until stop is closed: in one line, redrawn five times a
// second, or if live is false, a new line every second.
func watch(w io.Writer, live bool, stop <-chan struct{}, look func() Meter) {
	every, end := time.Second, "\n"
	if live {
		every, end = 200*time.Millisecond, "\r"
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	start := time.Now()
	longest := 0
	draw := func(end string) {
		line := bar(look(), time.Since(start))
		longest = max(longest, len(line))
		// The write fails when the reader of the bar is gone.
		_, _ = fmt.Fprintf(w, "%-*s%s", longest, line, end)
	}
	for {
		select {
		case <-tick.C:
			draw(end)
		case <-stop:
			if live {
				draw("\n")
			}
			return
		}
	}
}

// bar formats a meter: "[######              ]  30 %  words  7 s left".
func bar(m Meter, took time.Duration) string {
	if m.Total <= 0 {
		return m.Words
	}
	const width = 20
	share := min(1, max(0, float64(m.Done)/float64(m.Total)))
	full := int(share * width)
	left := ""
	if share > 0.01 && share < 1 {
		left = fmt.Sprintf("  %s left", (time.Duration(float64(took)*(1-share)/share) + time.Second).Truncate(time.Second))
	}
	return fmt.Sprintf("[%s%s] %3.0f %%  %s%s", strings.Repeat("#", full), strings.Repeat(" ", width-full), 100*share, m.Words, left)
}
