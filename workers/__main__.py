"""python -m workers"""

from workers.cli import main

if __name__ == "__main__":
    main()
