package schedule

import "slices"

// Week returns when a schedule is open on each day, Monday first, in minutes of the day. A
// schedule without windows is always open. Windows with dates are left out.
func (s Schedule) Week() (days [7][]Stretch, err error) {
	if len(s) == 0 {
		for d := range days {
			days[d] = []Stretch{{0, 24 * 60}}
		}
		return days, nil
	}
	all, _, err := s.Parse()
	if err != nil {
		return days, err
	}
	for _, h := range all {
		if h.dates != nil && !h.dates.not {
			continue
		}
		for d := range days {
			if h.days>>((d+1)%7)&1 == 0 {
				continue
			}
			if h.start < h.end {
				days[d] = append(days[d], Stretch{h.start, h.end})
				continue
			}
			days[d] = append(days[d], Stretch{h.start, 24 * 60})
			if next := (d + 1) % 7; h.end > 0 {
				days[next] = append(days[next], Stretch{0, h.end})
			}
		}
	}
	for d := range days {
		slices.SortStableFunc(days[d], func(a, b Stretch) int { return a.From - b.From })
	}
	return days, nil
}

// A Stretch is a part of a day, in minutes since midnight, without To.
type Stretch struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// A Period is a time of a window: some days, Monday first, from a minute of the day to another. One that
// ends before it begins ends on the next day.
type Period struct {
	Days     [7]bool
	From, To int
}

// Periods returns the times of a window, whatever its dates and zone are.
func (w Window) Periods() (all []Period, err error) {
	hs, err := w.compile()
	for _, h := range hs {
		p := Period{From: h.start, To: h.end}
		for d := range p.Days {
			p.Days[d] = h.days>>((d+1)%7)&1 != 0
		}
		all = append(all, p)
	}
	return all, err
}
