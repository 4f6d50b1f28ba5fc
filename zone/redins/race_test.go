//go:build race

package redins

const raceEnabled = true
