"""`python -m stages NAME …`: the one way in for every stage, and for what starts them."""

import sys

from console.faults import RecipeError
from console.terminal import complain

if __name__ == "__main__":
    match sys.argv[1:2]:
        case ["launch"]:
            from stages import launch

            del sys.argv[1]
            launch.main()
        case ["make"]:
            from stages import make

            try:
                make.main(sys.argv[2:])
            except RecipeError as error:
                complain(str(error))
                make.silence_make()
                sys.exit(make.MISTAKE)
        case _:
            from stages.cli import run_named

            run_named()
