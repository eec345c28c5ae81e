"""What a Spark Connect server must be started with, besides the jar."""

SETTING = "spark.connect.extensions.relation.classes"
PLUGIN = "io.pillarbox.spark.connect.PillarboxRelations"
