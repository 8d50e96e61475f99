/** The processes that render: what breaks, hangs or grows is ended, and nothing else with it. */
import sharp from 'sharp';
import { afterEach, expect, test } from 'vitest';
import { createRenderer, type Renderer, usualRendererLimits } from './renderer.ts';

const options = { w: 32, fit: 'inside', format: 'webp', quality: 80 } as const;
const request = { options, maxPixels: 50_000_000 };
const noise = (side: number) =>
  sharp({
    create: {
      width: side,
      height: side,
      channels: 3,
      background: '#fff',
      noise: { type: 'gaussian', mean: 128, sigma: 60 },
    },
  })
    .png()
    .toBuffer();

let renderer: Renderer;
afterEach(() => renderer.close());

test('a picture that takes too long is refused, the next one is made', async () => {
  renderer = createRenderer({ ...usualRendererLimits, processes: 1, timeMs: 1_500 });
  const slow = await noise(3_000);
  const avif = { ...options, w: 3_000, format: 'avif', quality: 100 } as const;
  const answer = await renderer.render(async () => slow, { ...request, options: avif });
  expect(answer.outcome).toBe('refused');
  renderer.close();
  renderer = createRenderer({ ...usualRendererLimits, processes: 1 });
  const small = await noise(64);
  expect((await renderer.render(async () => small, request)).outcome).toBe('rendered');
});

test('a process that grows is ended', async () => {
  renderer = createRenderer({ ...usualRendererLimits, processes: 1, memoryBytes: 40 * 1_048_576 });
  const large = await noise(2_500);
  const answer = await renderer.render(async () => large, {
    ...request,
    options: { ...options, w: 2_500, format: 'avif' },
  });
  expect(answer.outcome).toBe(process.platform === 'linux' ? 'refused' : 'rendered');
});

test('beyond those that may wait, requests are refused at once', async () => {
  renderer = createRenderer({ ...usualRendererLimits, processes: 1, waiting: 2 });
  const small = await noise(64);
  const asked = await Promise.allSettled(
    Array.from({ length: 8 }, () => renderer.render(async () => small, request)),
  );
  expect(asked.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
  for (const one of asked)
    if (one.status === 'rejected') expect(one.reason).toMatchObject({ status: 503 });
});

test('a source that cannot be read passes on why, and gives its turn back', async () => {
  renderer = createRenderer({ ...usualRendererLimits, processes: 1 });
  const gone = renderer.render(() => Promise.reject(new Error('gone')), request);
  await expect(gone).rejects.toThrow('gone');
  const small = await noise(64);
  expect((await renderer.render(async () => small, request)).outcome).toBe('rendered');
});
