import { create } from '@bufbuild/protobuf';
import { expect, test, vi } from 'vitest';
import { GenerateSchema } from '../contract/gen/node_relay_pb.ts';
import { logRequest } from './log-request.ts';

test('of each request its number and its trace, and nothing of its prompt', () => {
  const lines: string[] = [];
  vi.spyOn(console, 'debug').mockImplementation((line: string) => void lines.push(line));
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  logRequest(create(GenerateSchema, { jobId: 7n, inputIds: [333], traceparent }));
  logRequest(create(GenerateSchema, { jobId: 8n, inputIds: [333] }));
  vi.restoreAllMocks();
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    {
      ...{ msg: 'request', job: '7' },
      ...{ trace_id: '0af7651916cd43dd8448eb211c80319c', parent_span_id: 'b7ad6b7169203331' },
    },
    { msg: 'request', job: '8' },
  ]);
});
