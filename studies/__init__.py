"""Studies that come with the project: data, packaged so that an installed copy has them too."""
