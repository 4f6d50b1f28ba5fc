//go:build !small

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"slices"
	"strings"
	"time"

	"shuultuur/check/picture"
	"shuultuur/lib/neural"
)

const modelHelp = `
FILE is a neural network in the format of ONNX. What its input and output mean
is said by FILE.yaml beside it; see the README of check/picture.`

// modelCommands are the subcommands of "shuultuur model".
func modelCommands() []command {
	return []command{
		{name: "check", args: "FILE", what: "check whether a model can run, and list missing operators", run: modelCheck, here: ofFiles},
		{name: "bench", args: "[-n N] FILE [PICTURE...]", what: "measure how long a model takes for a picture", run: modelBench, here: ofFiles},
	}
}

func modelCommand(ctx context.Context, e env, args []string) int {
	return group(ctx, e, "model", modelHelp, modelCommands(), args)
}

// modelCheck reads a model. The exit status is 1 if it cannot run.
func modelCheck(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "model check", "FILE", "Checks whether a model can run here, and lists missing operators.")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	file := f.Arg(0)
	g, _, err := picture.ReadGraph(file)
	if err != nil {
		return fail(e, err)
	}
	if missing := g.Missing(); len(missing) > 0 {
		fmt.Fprintf(e.stdout, "%s: operators that are not there:\n", file)
		for _, m := range missing {
			fmt.Fprintln(e.stdout, "  "+m)
		}
		fmt.Fprintf(e.stdout, "There are: %s\n", strings.Join(neural.Operators(), ", "))
		return 1
	}
	if _, err := os.Stat(file + ".yaml"); os.IsNotExist(err) {
		n, err := g.Compile(nil)
		if err != nil {
			return fail(e, fmt.Errorf("%s: %w", file, err))
		}
		printNet(e, file, n)
		fmt.Fprintf(e.stdout, "  no description: the gateway needs %s.yaml\n", file)
		return 0
	}
	m, err := picture.OpenModel(file)
	if err != nil {
		return fail(e, err)
	}
	printNet(e, file, m.Net)
	fmt.Fprintf(e.stdout, "  labels %s; licence %s\n", strings.Join(m.Labels, ", "), cmp.Or(m.Licence, "not said"))
	return 0
}

func printNet(e env, file string, n *neural.Net) {
	fmt.Fprintf(e.stdout, "%s: can run\n  input %v, outputs %v\n  %d operations, %.1f million weights, %.1f million multiplications a picture\n  %.1f MB of memory a worker, kernel %s\n",
		file, n.Input, n.Outputs, n.Nodes, float64(n.Weights)/1e6, float64(n.Work)/1e6, float64(n.Memory)/(1<<20), n.Kernel())
}

// modelBench measures the time of a model on one thread.
func modelBench(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "model bench", "[-n N] FILE [PICTURE...]", "Measures how long a model takes for a picture, decoding included, on one thread.")
	n := f.Int("n", 20, "how `often`")
	if status := parse(args, 1, -1); status >= 0 {
		return status
	}
	m, err := picture.OpenModel(f.Arg(0))
	if err != nil {
		return fail(e, err)
	}
	pictures, err := benchPictures(f.Args()[1:])
	if err != nil {
		return fail(e, err)
	}
	var times []time.Duration
	for i := range max(1, *n) {
		start := time.Now()
		if _, _, err := m.Judge(ctx, pictures[i%len(pictures)]); err != nil {
			return fail(e, err)
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	printNet(e, f.Arg(0), m.Net)
	middle := times[len(times)/2]
	fmt.Fprintf(e.stdout, "  %d pictures: %.1f ms at least, %.1f ms in the middle, %.1f ms at most; %.1f billion multiplications a second\n",
		len(times), float64(times[0].Microseconds())/1000, float64(middle.Microseconds())/1000, float64(times[len(times)-1].Microseconds())/1000,
		float64(m.Net.Work)/middle.Seconds()/1e9)
	return 0
}

// benchPictures reads pictures, or makes one of a megapixel.
func benchPictures(files []string) (all [][]byte, err error) {
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	if len(all) > 0 {
		return all, nil
	}
	m := image.NewYCbCr(image.Rect(0, 0, 1152, 864), image.YCbCrSubsampleRatio420)
	for i := range m.Y {
		m.Y[i] = uint8(i*i>>9 ^ i>>3)
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		return nil, err
	}
	return [][]byte{b.Bytes()}, nil
}
