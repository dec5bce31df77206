SELECT wanted.blob FROM unnest($1::text[]) AS wanted (blob)
WHERE EXISTS (SELECT 1 FROM data WHERE data.blob = wanted.blob)
   OR EXISTS (SELECT 1 FROM output WHERE output.blob = wanted.blob)
