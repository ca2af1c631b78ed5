package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// printer writes headlines and, on a terminal, one line that changes.
type printer struct {
	mu       sync.Mutex
	out      *os.File
	terminal bool
	live     bool      // the cursor stands behind a live line
	lastLive time.Time // for a plain output: a line every few seconds will do
	story    time.Time // when the set-up was over; zero before
}

func newPrinter(out *os.File) *printer {
	info, err := out.Stat()
	return &printer{out: out, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// startClock begins the story's time.
func (p *printer) startClock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.story = time.Now()
}

func (p *printer) sinceStory() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.story).Seconds()
}

// step prints a headline.
func (p *printer) step(format string, args ...any) {
	p.say("\n== "+format, args...)
}

// event prints what happened, with the time since the story's beginning.
func (p *printer) event(format string, args ...any) {
	p.say("%5.1fs  %s", p.sinceStory(), fmt.Sprintf(format, args...))
}

// say prints a line.
func (p *printer) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.live = false
	}
	fmt.Fprintf(p.out, format+"\n", args...)
}

// liveWidth keeps the live line from wrapping: what has wrapped can't be taken back.
const liveWidth = 79

// progress shows where things are.
func (p *printer) progress(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := fmt.Sprintf("%5.1fs  … %s", time.Since(p.story).Seconds(), fmt.Sprintf(format, args...))
	switch {
	case p.terminal:
		if runes := []rune(text); len(runes) > liveWidth {
			text = string(runes[:liveWidth])
		}
		fmt.Fprint(p.out, "\r\x1b[K"+text)
		p.live = true
	case time.Since(p.lastLive) > 3*time.Second:
		fmt.Fprintln(p.out, text)
		p.lastLive = time.Now()
	}
}

// number writes n with a comma between thousands.
func number[N int | int64 | uint64](n N) string {
	digits := fmt.Sprint(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return number(n) + " " + thing + "s"
}
