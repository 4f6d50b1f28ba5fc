// Package process is what a command line needs of the operating system: to be ended in order, as a
// service of Windows too, and to ask another process of the gateway to hand over.
package process
