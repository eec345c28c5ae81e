"""The demo: 20,000 real flights meet real hourly weather, through a slow HTTP service.

Each module is one part: `data` writes the inputs, `service` answers requests in a process of its
own, `job` is the PySpark job (the part to copy), `baselines` are the usual ways of doing it,
`check` compares with a plain pandas merge, `picture` draws. Run it all with
``python -m flight_weather`` from the folder above, or ``make demo`` from the repository's root.
"""
