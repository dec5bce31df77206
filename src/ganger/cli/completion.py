"""`ganger completion`: the shell completes commands, options and words."""

import click

_SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS), metavar="SHELL")
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands.

    \b
    In ~/.bashrc:    eval "$(ganger completion bash)"
    In ~/.zshrc:     eval "$(ganger completion zsh)"
    In config.fish:  ganger completion fish | source
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"nothing is known of completion in {shell}")
    root = ctx.find_root()
    click.echo(made(root.command, {}, "ganger", "_GANGER_COMPLETE").source())
