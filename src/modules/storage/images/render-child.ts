/**
 * Where pictures are decoded: a process of its own that knows nothing and can be ended at any time. Decoders are large
 * and written in C, and what they decode comes from strangers.
 */
import sharp from 'sharp';
import type { RenderAnswer, RenderTask } from './render-task.ts';

/** Formats with decoders that need nothing but their bytes. SVG, PDF and those of other programs are not among them. */
const formats: ReadonlySet<string> = new Set([
  'jpeg',
  'png',
  'webp',
  'gif',
  'heif',
  'avif',
  'tiff',
]);
/** Pages beyond which a picture is refused before anything of it is decoded. */
const MAX_PAGES = 10_000;

sharp.cache(false);
sharp.concurrency(1);

process.on('message', (task: RenderTask) => {
  render(task).then(
    (answer) => process.send?.(answer),
    () => process.send?.({ id: task.id, outcome: 'refused' } satisfies RenderAnswer),
  );
});
process.once('disconnect', () => process.exit());

async function render(task: RenderTask): Promise<RenderAnswer> {
  const { id, source, options, maxPixels } = task;
  const image = sharp(source, { limitInputPixels: maxPixels, failOn: 'error', unlimited: false });
  const { format, width = 0, height = 0, pages = 1 } = await image.metadata();
  if (!formats.has(format ?? '') || width * height > maxPixels || pages > MAX_PAGES)
    return { id, outcome: 'refused' };
  if (pages > 1 && format !== 'heif' && format !== 'tiff') return { id, outcome: 'animated' };
  const { w, h, fit, quality } = options;
  // Metadata stays behind, places among them; the turn that it asked for is made.
  const data = await image
    .autoOrient()
    .resize({
      ...(w !== undefined && { width: w }),
      ...(h !== undefined && { height: h }),
      fit,
      withoutEnlargement: fit === 'inside',
    })
    .toFormat(options.format, { quality })
    .toBuffer();
  return { id, outcome: 'rendered', data };
}
