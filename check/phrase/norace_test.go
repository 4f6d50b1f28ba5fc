//go:build !race

package phrase

const raceEnabled = false
