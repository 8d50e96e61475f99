/** A server that speaks S3, in this process and on a folder of its own. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** It comes without types. */
type S3Server = new (options: {
  readonly port: number;
  readonly address: string;
  readonly silent: boolean;
  readonly directory: string;
}) => { run(): Promise<AddressInfo>; close(): Promise<void> };

export interface TestS3 {
  /** `http://127.0.0.1:<port>` */
  readonly endpoint: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  close(): Promise<void>;
}

/** The credentials are the only ones it knows. */
export async function startTestS3(): Promise<TestS3> {
  const Server = createRequire(import.meta.url)('s3rver') as S3Server;
  const directory = await mkdtemp(join(tmpdir(), 's3-'));
  const server = new Server({ port: 0, address: '127.0.0.1', silent: true, directory });
  const { port } = await server.run();
  return {
    endpoint: `http://127.0.0.1:${port}`,
    credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
    async close() {
      await server.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
