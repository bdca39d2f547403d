package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/kvslots/kvslots/kvslots"
	"github.com/kvslots/kvslots/kvslots/client"
	"github.com/kvslots/kvslots/kvslots/wire"
)

// explain returns an error that is fit to be printed, with the flag that may be wrong.
func (l *lender) explain(err error) error {
	if taken, ok := errors.AsType[*kvslots.TakenError](err); ok && taken.Err == kvslots.ErrLimitMismatch && taken.Limit != 0 {
		return fmt.Errorf("%w; \"kvslots resize\" changes the limit", err)
	}
	if refused, ok := errors.AsType[*wire.Refusal](err); ok {
		refused.Text = printable(refused.Text)
		if hint := l.hintAt(refused); hint != "" {
			refused.Text = refused.Error() + hint
		}
		return refused
	}
	hint := certificateHint(err, "--server", "--tls-ca")
	switch unanswered, ok := errors.AsType[*client.Unanswered](err); {
	case errors.Is(err, client.ErrNotUnderstood) && !l.overNATS():
		return fmt.Errorf("%s: the answer is not that of a gateway; is --server a kvslots gateway?", l.at.Shown())
	case ok && l.overNATS():
		return &client.Unanswered{Err: errors.New(withAddress(printable(unanswered.Error()), "NATS: ", l.at.NATS.Shown(), "--nats-url"))}
	case ok && unanswered == client.ErrAnswerTimeout:
		return &client.Unanswered{Err: errors.New(withAddress(unanswered.Error(), "", l.at.Shown(), "--server"))}
	case ok:
		return &client.Unanswered{Err: errors.New(l.printableEach(unanswered.Error()) + unansweredHint(err))}
	case hint != "":
		return fmt.Errorf("%w; %s", err, hint)
	case errors.Is(err, client.ErrTLS), errors.Is(err, client.ErrNoTLS):
		return fmt.Errorf("%w: correct --server", err)
	}
	return err
}

// withAddress adds to the text of a request without an answer where the request was sent, unless the text says so.
func withAddress(text, prefix, address, flag string) string {
	if strings.Contains(text, address) {
		return text
	}
	return fmt.Sprintf("%s%s: %s; is %s right, and a gateway running there?", prefix, address, strings.TrimPrefix(text, prefix), flag)
}

func (l *lender) overNATS() bool { return l.at.NATS.URL != "" }

// hintAt returns what may be wrong if a gateway refuses a request so.
func (l *lender) hintAt(refused *wire.Refusal) string {
	switch {
	case refused.Status == http.StatusForbidden && refused.Text == wire.ReadOnly.Text:
		return "; changes need the gateway's full token"
	case refused.Status == http.StatusUnauthorized && l.overNATS() && l.at.Token.Given():
		return "; the token of --auth-token or --auth-token-file is not one of the gateway's"
	case refused.Status == http.StatusUnauthorized && l.overNATS():
		return "; the gateway requires a token of operators: give --auth-token-file"
	case l.overNATS():
		return ""
	case refused.Text == "" && refused.Status < http.StatusBadRequest:
		return ", a redirect; is --server right?"
	case refused.Status == http.StatusUnauthorized && l.at.Token.Given():
		return "; the token of --auth-token or --auth-token-file is not one of " + l.at.Shown()
	case refused.Status == http.StatusUnauthorized:
		return "; " + l.at.Shown() + " requires a token: give --auth-token-file"
	case errors.Is(refused, errors.ErrUnsupported):
		return l.pathHint()
	}
	return ""
}

func (l *lender) pathHint() string {
	if !l.at.HasPath() {
		return ""
	}
	return "; --server must be " + l.at.Shown() + ", without a path such as /l"
}

func unansweredHint(err error) string {
	_, unknown := errors.AsType[*net.DNSError](err)
	refused := func(known error) bool { return errors.Is(err, known) }
	switch {
	case unknown, slices.ContainsFunc([]error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, os.ErrDeadlineExceeded}, refused):
		return "; is --server right, and a gateway running there?"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "; is --server right?"
	}
	return ""
}

// certificateHint returns what may be wrong if a server's certificate is not trusted. server and
// authorities are the flags for its URL and for the authorities.
func certificateHint(err error, server, authorities string) string {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, otherName := errors.AsType[x509.HostnameError](err)
	switch {
	case unknown:
		return authorities + " names the authorities to trust"
	case otherName:
		return server + " must name the host as its certificate does"
	}
	return ""
}

// maxText is the maximal length of a server's text in an error, in characters.
const maxText = 200

// printable replaces characters that control a terminal, and cuts long texts: the text
// may come from any server.
func printable(text string) string { return printableUpTo(text, maxText) }

// printableEach is printable for a text that may have an error of each server.
func (l *lender) printableEach(text string) string {
	return printableUpTo(text, maxText*max(len(l.at.Servers()), 1))
}

func printableUpTo(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}
