/** A server that speaks S3, in this process and on a folder of its own. */
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { removeFolder, temporaryFolder } from '../temporary-folder.ts';

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
  const directory = await temporaryFolder('s3');
  const server = new Server({ port: 0, address: '127.0.0.1', silent: true, directory });
  const { port } = await server.run();
  return {
    endpoint: `http://127.0.0.1:${port}`,
    credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
    async close() {
      await server.close();
      await removeFolder(directory);
    },
  };
}
