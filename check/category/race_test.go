//go:build race

package category

const raceEnabled = true
