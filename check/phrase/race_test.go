//go:build race

package phrase

const raceEnabled = true
