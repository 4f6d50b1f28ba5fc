// Package test holds the stories: scripts a user could have typed, and a real
// browser sent through a real gateway.
package test
