#!/usr/bin/perl
# An execution node written from the text of the protocol, with the Perl driver of MongoDB and nothing of Ganger.
#
# perl den.pl URL NODE LOG: claims tasks of queues whose plugin it has, runs each in a process of its own, and settles it.
# It writes a line to LOG for each task that it runs. TERM lets what runs end, and takes nothing more.
use strict;
use warnings;
use BSON::Time;
use Fcntl qw(O_WRONLY O_APPEND O_CREAT);
use MongoDB;
use POSIX qw(WNOHANG);
use Time::HiRes qw(sleep time);

my ($url, $node, $log) = @ARGV;
my ($name) = $url =~ m{^mongodb://[^/]+/([^?]+)};
my $plugin = 'Disbatch::Plugin::Demo';
my ($interval, $beat, $most) = (0.02, 1, 16);
my %queue_of;       # process -> queue of the task that it runs
my $stopping = 0;
$SIG{TERM} = $SIG{INT} = sub { $stopping = 1 };

sub connect_to { MongoDB->connect($url)->get_database($name) }
sub now { BSON::Time->new }

my $base = connect_to();
my ($tasks, $queues, $nodes) = map { $base->get_collection($_) } qw(tasks queues nodes);

# Indexes, then orphans, then the registration: all before any task is processed.
$tasks->indexes->create_one([node => 1, status => 1, queue => 1]);
$tasks->update_many(
    { node => $node, status => { '$in' => [-1, 0] } }, { '$set' => { status => -6, mtime => now() } });
register();

my $heard = time;
until ($stopping) {
    reap();
    if (time - $heard > $beat) { $heard = time; register() }
    for my $queue ($queues->find({ constructor => $plugin })->all) {
        next unless is_mine($queue);
        while (!$stopping and has_room($queue)) {
            my $task = claim($queue) or last;
            start($task);
        }
    }
    sleep $interval;
}
while (%queue_of) { reap(); sleep $interval }

sub register {
    my @told = map {
        my $doing = $tasks->count_documents({ queue => $_->{_id}, status => { '$in' => [-1, 0] } });
        { name => $_->{name}, id => "$_->{_id}", constructor => $_->{constructor}, tasks_doing => $doing }
    } $queues->find->all;
    $nodes->update_one(
        { node => $node }, { '$set' => { node => $node, timestamp => now(), queues => \@told } }, { upsert => 1 });
}

# Pinned nodes are the only ones; else all but those that are ignored.
sub is_mine {
    my ($queue) = @_;
    my @pinned = @{ $queue->{nodes_pin} // [] };
    return scalar grep { $_ eq $node } @pinned if @pinned;
    return !grep { $_ eq $node } @{ $queue->{nodes_ignore} // [] };
}

sub has_room {
    my ($queue) = @_;
    my $own = $nodes->find_one({ node => $node }) // {};
    my $here = grep { $_ eq "$queue->{_id}" } values %queue_of;
    my $all = keys %queue_of;
    for ([$queue->{maxthreads}, $here], [$own->{maxthreads}, $all], [$most, $all]) {
        return 0 if defined $_->[0] and $_->[1] >= $_->[0];
    }
    return 1;
}

sub claim {
    my ($queue) = @_;
    my $order = { fifo => 1, lifo => -1 }->{ $queue->{sort} // 'default' };
    return $tasks->find_one_and_update(
        { node => -1, status => -2, queue => $queue->{_id} },
        { '$set' => { node => $node, status => -1, mtime => now() } },
        defined $order ? { sort => [_id => $order] } : {},
    );
}

sub start {
    my ($task) = @_;
    my $process = fork // die "fork: $!";
    if ($process) { $queue_of{$process} = "$task->{queue}"; return }
    $SIG{TERM} = $SIG{INT} = 'IGNORE';
    work($task);
    POSIX::_exit(0);
}

sub reap {
    while ((my $process = waitpid -1, WNOHANG) > 0) { delete $queue_of{$process} }
}

# In a process of its own, which needs a connection of its own.
sub work {
    my ($task) = @_;
    my $own = connect_to();
    my $mine = { _id => $task->{_id}, node => $node };
    my $began = $own->get_collection('tasks')->update_one(
        { %$mine, status => -1 }, { '$set' => { status => 0, mtime => now() } });
    return unless $began->modified_count;
    my $said = $task->{parameters};
    sysopen my $file, $log, O_WRONLY | O_APPEND | O_CREAT or die "$log: $!";
    syswrite $file, "$said->{n} $node\n";
    sleep($said->{sleep} // 0);
    my $done = { status => $said->{code} // 1, stdout => "$said->{n}\n", stderr => '', mtime => now() };
    my $ended = $own->get_collection('tasks')->update_one({ %$mine, status => 0 }, { '$set' => $done });
    return unless $ended->modified_count;
    $own->get_collection('queues')->update_one({ _id => $task->{queue} }, { '$inc' => { count_todo => -1 } });
}
