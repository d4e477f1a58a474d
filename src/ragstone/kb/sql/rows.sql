-- name: count_rows
SELECT count(*) FROM ({listing}) AS listing
