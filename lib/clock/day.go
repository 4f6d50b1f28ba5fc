package clock

import "time"

// Moment returns the first moment at which clocks in loc show a date and a time of day, given in
// minutes after midnight. Values beyond their ranges are carried over, as [time.Date] does.
//
// Clocks that are set forward skip times, midnight among them in Santiago, Havana and on the
// Azores, where time.Date may give a moment of the day before: the first moment after the gap
// stands for all in it. Clocks that are set back show times twice: the first one counts.
func Moment(year int, month time.Month, day, minutes int, loc *time.Location) time.Time {
	shown := time.Date(year, month, day, 0, minutes, 0, 0, time.UTC)
	at := shown.Add(-48 * time.Hour).In(loc) // no zone is further from UTC than a day
	for {
		begin, end := at.ZoneBounds()
		_, offset := at.Zone()
		moment := shown.Add(-time.Duration(offset) * time.Second).In(loc)
		switch {
		case !end.IsZero() && !moment.Before(end):
			at = end // the clock never got so far before it was set
		case moment.Before(begin):
			return begin
		default:
			return moment
		}
	}
}

// Day returns the first moment of the date that is days after the date of now, or before it if
// days is negative.
func Day(now time.Time, days int) time.Time {
	y, m, d := now.Date()
	return Moment(y, m, d+days, 0, now.Location())
}
