"""The model repository: finds model folders, recognizes exports, and writes a graph for those without one."""
