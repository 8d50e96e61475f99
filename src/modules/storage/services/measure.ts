/** Figures of files for monitoring; those an existing panel asks for have its names, and are 0 from the start. */
import type { Kernel } from '../../../host/kernel.ts';
import {
  type GaugeReading,
  type Histogram,
  remembered,
} from '../../../kernel/telemetry/metrics.ts';
import { storageTotals } from '../queries/insights.ts';

const labels = { module_name: 'storage' };
const RENEW_MS = 30_000;
/** Seconds: contents are large. */
const buckets = [0.01, 0.05, 0.25, 1, 5, 30, 120, 600, 3_600];

export interface StorageMeasures {
  readonly upload: (seconds: number) => void;
  readonly download: (seconds: number) => void;
}

/** Histograms of transfers. Made once for each process. */
export function measureTransfers({ metrics }: Pick<Kernel, 'metrics'>): StorageMeasures {
  const histogram = (name: string, help: string): Histogram =>
    metrics.histogram(name, help, ['module_name'], buckets);
  const uploads = histogram('storage_upload_seconds', 'How long contents took to be stored');
  const downloads = histogram('storage_download_seconds', 'How long contents took to be sent');
  return { upload: uploads.bind(labels), download: downloads.bind(labels) };
}

/** Gauges from the counters that are kept with the containers, as of the last half minute. */
export function measureFiles({ metrics, database }: Pick<Kernel, 'metrics' | 'database'>): void {
  const totals = remembered(RENEW_MS, [], async () => {
    const { containers, folders, files, totalSize, perContainer } = await storageTotals(database);
    return [
      ...[containers, folders, files, totalSize].map((value) => ({ labels, value })),
      ...perContainer.map(({ name, size }) => ({ labels: { container: name }, value: size })),
    ];
  });
  const gauges = [
    ['containers_total', 'Containers'],
    ['folders_total', 'Folders'],
    ['files_total', 'Files with content'],
    ['storage_size_bytes_total', 'Bytes of all files'],
  ] as const;
  const figureAt = async (index: number): Promise<GaugeReading> => [
    { labels, value: asList(await totals())[index]?.value ?? 0 },
  ];
  for (const [index, [name, help]] of gauges.entries())
    metrics.gauge(name, `${help}, as of the last half minute`, () => figureAt(index), [
      'module_name',
    ]);
  metrics.gauge(
    'storage_container_bytes',
    'Bytes of the files of each container, as of the last half minute',
    async () => asList(await totals()).slice(gauges.length),
    ['container'],
  );
}

const asList = (reading: GaugeReading) => (typeof reading === 'number' ? [] : reading);
