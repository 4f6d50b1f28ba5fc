// Package shuultuur is the root of the web filter: it holds only the test
// that keeps the house in shape. The program is in cmd/shuultuur.
package shuultuur
