"""The setting that a Spark Connect server needs besides the jar."""

SETTING = "spark.connect.extensions.relation.classes"
PLUGIN = "io.pillarbox.spark.connect.PillarboxRelations"
