package main

import (
	"flag"
	"fmt"
)

type options struct {
	listenFD, configFD, egressFD          int
	listen, configFile, socket, tokenFile string
	client, carrier                       string
	egressListen, egressCarrier           string
	stdio, configLine, guest              bool
	guestArgs                             []string
}

func parseFlags(args []string) (*options, error) {
	opts := &options{}
	set := flag.NewFlagSet("runner", flag.ContinueOnError)
	set.IntVar(&opts.listenFD, "listen-fd", -1, "descriptor of a listening socket")
	set.IntVar(&opts.configFD, "config-fd", -1, "descriptor to read the configuration from")
	set.StringVar(&opts.listen, "listen", "", "path of the unix socket to listen on")
	set.StringVar(&opts.configFile, "config-file", "", "file to read the configuration from")
	set.BoolVar(&opts.configLine, "config-line", false, "read the configuration from the first line of stdin, and report on stderr when clients may connect")
	set.BoolVar(&opts.stdio, "stdio", false, "serve a multiplexed carrier on stdin and stdout")
	set.StringVar(&opts.carrier, "carrier", "", "serve a multiplexed carrier on the device at this path, on the port virtio:NAME, or on the descriptor fd:NUMBER")
	set.IntVar(&opts.egressFD, "egress-fd", -1, "descriptor of a listening socket for the egress process")
	set.StringVar(&opts.egressListen, "egress-listen", "", "path of the unix socket to listen on for the egress process")
	set.StringVar(&opts.egressCarrier, "egress-carrier", "", "like --carrier, for the egress process")
	set.BoolVar(&opts.guest, "guest", false, "take the configuration from the first process of the virtual machine and enter the session's root")
	set.StringVar(&opts.client, "client", "", "send this one request to a runner and print its reply")
	set.StringVar(&opts.socket, "socket", "/run/runner.sock", "with --client: path of the runner's socket")
	set.StringVar(&opts.tokenFile, "token-file", "", "with --client: file that holds the token")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if opts.guest {
		opts.guestArgs = set.Args()
	} else if set.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	return opts, nil
}
