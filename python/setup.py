"""The module is compiled already (by CMake), so there is nothing to build; but it is for one Python."""
import setuptools


class Compiled(setuptools.Distribution):
    def has_ext_modules(self):
        return True


setuptools.setup(distclass=Compiled)
